"""Side by side with other libraries: time, and how many of the results are not correctly rounded."""
