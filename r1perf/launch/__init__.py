"""Start worker processes on this machine and speak to them through pipes; `child` is what runs in them."""
