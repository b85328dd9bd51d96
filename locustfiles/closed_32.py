from r1perf.swarm import R1User, swarm

swarm("closed-32")
