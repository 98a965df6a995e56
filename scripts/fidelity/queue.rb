# Four threads behind a queue of eight, in Ruby.
work = SizedQueue.new(8)
done = Queue.new
threads = 4.times.map do
  Thread.new do
    while (x = work.pop) != :end
      sum = 0
      2000.times { |i| sum += i * x }
      done << sum
    end
  end
end
8000.times { |i| work << i }
4.times { work << :end }
threads.each(&:join)
