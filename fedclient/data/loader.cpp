#include "fedclient/data/loader.h"

#include <chrono>
#include <utility>

#include "core/base/assert.h"
#include "fedclient/data/augment.h"

namespace fedqueue {

BatchLoader::BatchLoader(const Dataset& dataset, BatchSampler sampler, const LoaderOptions& options)
    : dataset_(dataset),
      options_(options),
      position_(sampler.position()),
      sampler_(std::move(sampler)),
      slots_(static_cast<std::size_t>(options.threads) * 2) {
  FEDQUEUE_ASSERT(options.threads >= 0);
  for (int i = 0; i < options.threads; ++i) workers_.emplace_back([this] { work(); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

BatchLoader::Ticket BatchLoader::draw() {
  Ticket ticket;
  ticket.number = drawn_++;
  // The ranks' parts follow each other in the batch, so a place follows from the batch's own.
  const BatchPosition before = sampler_.position();
  ticket.samples = sampler_.next(0, 1);
  const std::int64_t begin = sampler_.batch() * options_.rank / options_.ranks;
  const std::int64_t end = sampler_.batch() * (options_.rank + 1) / options_.ranks;
  ticket.indices.assign(ticket.samples.begin() + begin, ticket.samples.begin() + end);
  ticket.after = sampler_.position();
  if (!options_.augmentation.of_images()) return ticket;
  std::int64_t place = before.offset + begin;
  for (std::size_t i = 0; i < ticket.indices.size(); ++i, ++place) {
    ticket.places.push_back(
        {before.epoch + place / sampler_.samples(), place % sampler_.samples()});
  }
  return ticket;
}

Result<Batch> BatchLoader::prepare(const Ticket& ticket) const {
  Result<Batch> batch = read_batch(dataset_, ticket.indices);
  if (!batch) return batch;
  augment(options_.augmentation, options_.seed, ticket.places, *batch);
  normalize(options_.augmentation.normalization, *batch);
  return batch;
}

// Nothing when the loader ends. Workers that wait for their turn hold no ticket, so that the order
// of the tickets is that of the sampler.
std::optional<BatchLoader::Ticket> BatchLoader::draw_when_room() {
  const std::lock_guard turn(draw_mutex_);
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] {
      return stopping_ || drawn_ < taken_ + static_cast<std::int64_t>(slots_.size());
    });
    if (stopping_) return std::nullopt;
  }
  return draw();
}

void BatchLoader::work() {
  while (std::optional<Ticket> ticket = draw_when_room()) {
    Result<Batch> batch = prepare(*ticket);
    {
      const std::lock_guard lock(mutex_);
      Slot& slot = slots_[static_cast<std::size_t>(ticket->number) % slots_.size()];
      slot.batch.emplace(std::move(batch));
      slot.samples = std::move(ticket->samples);
      slot.after = ticket->after;
    }
    ready_.notify_one();
  }
}

Result<Batch> BatchLoader::next() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point started = Clock::now();
  const auto timed = [&] {
    wait_seconds_ += std::chrono::duration<double>(Clock::now() - started).count();
  };
  if (workers_.empty()) {
    Ticket ticket = draw();
    Result<Batch> batch = prepare(ticket);
    samples_ = std::move(ticket.samples);
    position_ = ticket.after;
    timed();
    return batch;
  }
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(taken_) % slots_.size()];
  ready_.wait(lock, [&] { return slot.batch.has_value(); });
  Result<Batch> batch = std::move(*slot.batch);
  slot.batch.reset();
  samples_ = std::move(slot.samples);
  position_ = slot.after;
  ++taken_;
  lock.unlock();
  room_.notify_one();
  timed();
  return batch;
}

}  // namespace fedqueue
