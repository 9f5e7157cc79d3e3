"""What happened: the only classes that are stored. Their dotted names stay for good."""
