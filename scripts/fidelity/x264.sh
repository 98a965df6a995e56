#!/bin/sh
exec ffmpeg -hide_banner -loglevel error -threads 3 -i clip.mp4 -c:v libx264 -preset veryfast -threads 3 -an -y again.mp4
