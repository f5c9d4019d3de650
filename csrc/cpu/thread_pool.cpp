#include "thread_pool.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace flashbench {
namespace cpu {
namespace {

// Some 25 us on current x86-64: longer than the pause between two calls in a loop.
constexpr int spins = 2000;

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

template <class Condition>
void spin_until(Condition condition) {
    for (int i = 0; i < spins && !condition(); ++i) pause_cpu();
}

class ThreadPool {
  public:
    void run(int helpers, void (*body)(void*), void* context) {
        const std::unique_lock<std::mutex> job(job_, std::try_to_lock);
        if (!job.owns_lock()) {
            body(context);
            return;
        }
        start_threads(helpers);
        {
            const std::lock_guard<std::mutex> lock(state_);
            body_ = body;
            context_ = context;
            open_places_ = helpers < threads_ ? helpers : threads_;
        }
        for (int i = 0; i < helpers && i < threads_; ++i) work_.notify_one();
        body(context);
        {
            const std::lock_guard<std::mutex> lock(state_);
            open_places_ = 0;  // who has not come by now need not
        }
        spin_until([this] { return running_ == 0; });
        std::unique_lock<std::mutex> lock(state_);
        done_.wait(lock, [this] { return running_ == 0; });
    }

  private:
    // Threads are never joined: they sleep until the process ends.
    void start_threads(int wanted) {
        if (threads_ >= wanted) return;
        // Signals are for the threads of the program, e.g. Ctrl-C for Python's main thread.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            for (; threads_ < wanted; ++threads_) std::thread([this] { work(); }).detach();
        } catch (const std::system_error&) {
            // No more threads to be had: those that there are do the work, with the same result.
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    void work() {
        for (;;) {
            spin_until([this] { return open_places_ > 0; });
            std::unique_lock<std::mutex> lock(state_);
            work_.wait(lock, [this] { return open_places_ > 0; });
            --open_places_;
            ++running_;
            void (*const body)(void*) = body_;
            void* const context = context_;
            lock.unlock();
            body(context);
            lock.lock();
            if (--running_ == 0) done_.notify_one();
        }
    }

    std::mutex job_;    // held by the caller whose job the threads work on
    int threads_ = 0;   // guarded by job_
    std::mutex state_;  // guards what follows; the atomics are for spinning without it
    std::condition_variable work_;
    std::condition_variable done_;
    std::atomic<int> open_places_{0};
    std::atomic<int> running_{0};
    void (*body_)(void*) = nullptr;
    void* context_ = nullptr;
};

// Never destroyed, since its threads use it until the process ends. A child of fork() has none of
// those threads, and the mutexes may have been locked: it leaves the pool behind and makes its own.
std::atomic<ThreadPool*> the_pool{nullptr};
std::atomic<bool> fork_is_watched{false};

ThreadPool& pool() {
    ThreadPool* existing = the_pool;
    if (existing) return *existing;
    if (!fork_is_watched.exchange(true)) {
        pthread_atfork(nullptr, nullptr, [] { the_pool = nullptr; });
    }
    ThreadPool* const made = new ThreadPool;
    if (the_pool.compare_exchange_strong(existing, made)) return *made;
    delete made;  // another thread was first; this one has started no thread yet
    return *existing;
}

}  // namespace

void run_parallel(int helpers, void (*body)(void*), void* context) {
    if (helpers <= 0) {
        body(context);
    } else {
        pool().run(helpers, body, context);
    }
}

}  // namespace cpu
}  // namespace flashbench
