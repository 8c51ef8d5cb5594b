"""`opl try`: whether OPL helps on the images of a user, within a time that they give."""
