"""What runs r1perf elsewhere: containers, dashboards, databases."""
