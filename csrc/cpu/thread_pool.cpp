#include "thread_pool.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "openmp.h"

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

// Threads that spin for some microseconds when idle, then sleep. Serves one caller at a time.
class ThreadPool {
  public:
    // Runs on the caller and up to `helpers` others; does not wait for one that wakes up too late.
    void run(int helpers, void (*body)(void*), void* context) {
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
            open_places_ = 0;  // late threads are no longer needed
        }
        spin_until([this] { return running_ == 0; });
        std::unique_lock<std::mutex> lock(state_);
        done_.wait(lock, [this] { return running_ == 0; });
    }

  private:
    // Threads are never joined: they sleep until the process ends.
    void start_threads(int wanted) {
        if (threads_ >= wanted) return;
        // Signals belong to the program's threads, e.g. Ctrl-C to Python's main thread.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            for (; threads_ < wanted; ++threads_) std::thread([this] { work(); }).detach();
        } catch (const std::system_error&) {
            // No more threads: the existing ones do the work, with the same result.
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

    int threads_ = 0;
    std::mutex state_;  // guards what follows; the atomics are for spinning without it
    std::condition_variable work_;
    std::condition_variable done_;
    std::atomic<int> open_places_{0};
    std::atomic<int> running_{0};
    void (*body_)(void*) = nullptr;
    void* context_ = nullptr;
};

// The process's pool, never destroyed, because its threads use it until the end.
ThreadPool* the_pool = nullptr;  // guarded by `busy`
std::atomic<bool> busy{false};
// A child of fork() has none of its parent's threads, and locks may be held: it abandons the pool and
// creates its own. OpenMP's runtime does not detect the fork and would wait forever.
std::atomic<bool> forked{false};

// Registered when the library is loaded: torch's threads may be lost before the first call.
[[maybe_unused]] const bool watches_forks = [] {
    pthread_atfork(nullptr, nullptr, [] {
        the_pool = nullptr;
        busy = false;
        forked = true;
    });
    return true;
}();

}  // namespace

void run_parallel(int threads, int useful, void (*body)(void*), void* context) {
    if (useful <= 1 || busy.exchange(true)) {
        body(context);
        return;
    }
    if (forked || !run_on_openmp(threads, body, context)) {
        if (!the_pool) the_pool = new ThreadPool;
        the_pool->run(useful - 1, body, context);
    }
    busy = false;
}

}  // namespace cpu
}  // namespace flashbench
