"""What `opl bench` measures."""
