# Three threads behind a queue of eight, in Perl.
use strict;
use threads;
use Thread::Queue;
my $work = Thread::Queue->new;
$work->limit = 8;
my @threads = map {
    threads->create(sub { while (defined(my $x = $work->dequeue)) { my $sum = 0; $sum += $_ * $x for 1 .. 3000 } })
} 1 .. 3;
$work->enqueue($_) for 1 .. 4000;
$work->end;
$_->join for @threads;
