"""The options of each verb. Only click is imported up front: a verb imports what it needs, to keep `mmagen build` fast."""
