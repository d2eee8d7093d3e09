"""Child processes: hand open blocks on to them, open the blocks there, write and join their report files."""
