"""Who accessed which bytes and when: shadows of memory, vector clocks."""
