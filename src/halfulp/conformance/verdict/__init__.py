"""What to think of an answer: the right result, what a document leaves unspecified, what is known and allowed."""
