"""`kernel: peak`: one operation in a loop that fetches nothing."""
