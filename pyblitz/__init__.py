from pyblitz._python import ThreadPool, num_threads, set_num_threads
