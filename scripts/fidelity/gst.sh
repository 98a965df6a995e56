#!/bin/sh
# a pipeline of three threads at 25 frames a second
exec gst-launch-1.0 -q videotestsrc num-buffers=60 ! video/x-raw,framerate=25/1 ! queue ! videoconvert ! queue ! fakesink sync=true
