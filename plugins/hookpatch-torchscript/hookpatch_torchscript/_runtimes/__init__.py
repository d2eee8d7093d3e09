"""What each way to run a model costs and buys.

How it is measured: each mode in a fresh process, in which the model is built anew from the same seed. So the peak
memory is that mode's alone, and a mode that crashes takes no other with it. In it, in this order:

1. the model and its inputs are built; memory counts from here;
2. *preparation*: the mode is made of the model and called once, imports included: the time to the first answer;
3. three calls to warm up, then ``torch.utils.benchmark.Timer.blocked_autorange``, which warms up itself, chooses a
   block long enough for the clock, and waits for the GPU before and after each block; threads are fixed;
4. eager mode answers the same inputs, and the first answer of the mode is compared with that.

With ``--repeat`` there are rounds over all modes, each in processes of their own: what drifts on the machine is spread
over the modes, and what differs from process to process (addresses, for one) is among what is measured. Times of all
rounds are pooled: their median, and the range of their middle half (IQR). The method is that of "Rigorous Benchmarking
in Reasonable Time" (Kalibera and Jones, 2013): repeat at the level at which it varies.
"""
