"""`kernel: peak`: one operation in a loop without memory traffic."""
