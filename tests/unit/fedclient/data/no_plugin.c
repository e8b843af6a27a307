int fedqueue_example_nothing; /* a library, but no data plugin */
