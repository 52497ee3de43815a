"""What each verb of the command line does: one file a verb, loaded only when it is used."""
