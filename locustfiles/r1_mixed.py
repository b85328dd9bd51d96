from r1perf.swarm import R1User, swarm

swarm("r1-mixed")
