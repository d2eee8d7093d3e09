"""The layers of one slot, as why() reports them: our patches, foreign wrappers, the original. Changes no slot."""
