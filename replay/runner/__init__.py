"""Runs captured op calls again, and computes what they are judged against. ditrace starts it:
    python start.py REQUESTS REPLIES ARENA [THREADS]      (three inherited file descriptors)
Requests and replies are lines of JSON; tensors lie in the arena, a memory file, and a reply says
where. After a reply that has tensors the next line of the requests must be "go": the arena may be
used again then. No word is written to standard output."""
