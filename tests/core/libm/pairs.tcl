while {[gets stdin line] >= 0} { puts [expr {[lindex $line 0] ** [lindex $line 1]}] }
