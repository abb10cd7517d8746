"""Launch commands as text: `forms` writes and reads them, `provenance` tells their origin."""
