package penstock;

/** Checks nothing: the worker checks a task before it orders its start. */
class HostNothing implements Runnable {
    public void run() { }
}
