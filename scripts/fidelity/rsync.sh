#!/bin/sh
# copies, then compares what it has copied
rm -rf copy
rsync -a "$ROOT/crates" "$ROOT/docs" copy/ && rsync -ac "$ROOT/crates" "$ROOT/docs" copy/
