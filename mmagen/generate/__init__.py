"""From a plan to the files of a project, and from files to a folder."""
