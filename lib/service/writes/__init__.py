"""All writes of the loop: what is written, and one pipeline that drives them."""
