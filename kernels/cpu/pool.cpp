#include "pool.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#ifndef _WIN32
#include <pthread.h>
#endif

namespace colrank {
namespace {

using Work = std::function<void(std::int64_t, std::int64_t)>;

struct Job {
    Work const* work;
    std::int64_t items, piece;
    std::atomic<std::int64_t> next{0};
    int helpers = 0;  // threads inside of it beside the caller; guarded by the pool's mutex
    int most = 0;     // of these

    void help() {
        for (;;) {
            std::int64_t const begin = next.fetch_add(piece, std::memory_order_relaxed);
            if (begin >= items) return;
            (*work)(begin, std::min(items, begin + piece));
        }
    }
    bool open() const { return next.load(std::memory_order_relaxed) < items; }
};

class Pool {
public:
    void run(Job& job, int count) {
        {
            std::lock_guard<std::mutex> const lock(mutex_);
            while (static_cast<int>(workers_.size()) < count - 1) workers_.emplace_back([this] { serve(); });
            jobs_.push_back(&job);
        }
        std::int64_t const pieces = (job.items + job.piece - 1) / job.piece;
        if (pieces > 2)
            wake_.notify_all();
        else
            wake_.notify_one();
        job.help();
        std::unique_lock<std::mutex> lock(mutex_);
        jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
        left_.wait(lock, [&] { return job.helpers == 0; });
    }

private:
    Job* open_job() {
        for (Job* job : jobs_)
            if (job->helpers < job->most && job->open()) return job;
        return nullptr;
    }

    void serve() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            Job* job = nullptr;
            wake_.wait(lock, [&] { return (job = open_job()) != nullptr; });
            ++job->helpers;
            lock.unlock();
            job->help();
            lock.lock();
            if (--job->helpers == 0) left_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, left_;
    std::deque<Job*> jobs_;
    std::vector<std::thread> workers_;
};

std::atomic<int> wanted{0};
std::mutex making;
Pool* made = nullptr;  // never freed: its threads live as long as the process

Pool& pool() {
    std::lock_guard<std::mutex> const lock(making);
    if (made == nullptr) {
#ifndef _WIN32
        // A child has none of its parent's threads; it makes a pool of its own when it first needs one.
        static bool told = false;
        if (!told) {
            told = true;
            pthread_atfork([] { making.lock(); }, [] { making.unlock(); },
                           [] {
                               made = nullptr;
                               making.unlock();
                           });
        }
#endif
        made = new Pool;
    }
    return *made;
}

}  // namespace

int threads() {
    int const count = wanted.load();
    return count > 0 ? count : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void set_threads(int count) { wanted.store(std::max(1, count)); }

void parallel(std::int64_t items, std::int64_t piece, Work const& work) {
    piece = std::max<std::int64_t>(1, piece);
    int const count = threads();
    if (count == 1 || items <= piece) {
        for (std::int64_t begin = 0; begin < items; begin += piece) work(begin, std::min(items, begin + piece));
        return;
    }
    Job job;
    job.work = &work;
    job.items = items;
    job.piece = piece;
    job.most = count - 1;
    pool().run(job, count);
}

}  // namespace colrank
