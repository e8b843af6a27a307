#include "fedserver/blobs/upload.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/assert.h"
#include "core/base/points.h"

namespace fedqueue {
namespace {

// The disk starts on a stretch of this length as soon as it is complete.
constexpr std::uint64_t flush_bytes = 8u << 20;
constexpr std::size_t read_bytes = 1u << 20;

}  // namespace

Upload::Upload(BlobStore& store, UpdateId id, std::uint64_t bytes_total, std::string announced,
               std::unique_ptr<DiskFile> file)
    : store_(store),
      id_(std::move(id)),
      bytes_total_(bytes_total),
      announced_(std::move(announced)),
      path_(store.part_path(id_)),
      target_(std::make_shared<Target>()) {
  target_->file = std::move(file);
}

Upload::~Upload() {
  // Nobody is left to be told; the bytes that could not be made durable are simply not reported.
  if (open_) (void)suspend();
}

Status Upload::hash_prefix(std::uint64_t bytes) {
  std::vector<std::byte> buffer(read_bytes);
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::size_t want =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), bytes - done));
    const Result<std::size_t> count = target_->file->read_at(done, std::span(buffer).first(want));
    if (!count) return count.error();
    if (*count == 0) {
      return Error{Code::storage, "read '" + path_.string() + "': it became shorter", ""};
    }
    digest_.update({buffer.data(), *count});
    done += *count;
  }
  return {};
}

Status Upload::append(std::span<const std::byte> bytes) {
  FEDQUEUE_ASSERT(open_ && bytes.size() <= bytes_total_ - offset());
  const std::size_t known = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, bytes.size()));
  skip_ -= known;
  bytes = bytes.subspan(known);
  if (bytes.empty()) return {};
  if (Status written = write_at_end(bytes); !written) return written;
  sync_behind();
  const std::lock_guard lock(target_->mutex);
  if (target_->failed) return *target_->failed;
  return {};
}

Status Upload::write_at_end(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const Result<std::size_t> count = target_->file->write_at(written_, bytes);
    if (!count) {
      FEDQUEUE_MARK(upload_write_failed);
      Error error = count.error();
      if (error.code == Code::storage_full) error.cure = "Free space on the server's disk.";
      return error;
    }
    digest_.update(bytes.first(*count));
    written_ += *count;
    bytes = bytes.subspan(*count);
  }
  return {};
}

// Whatever becomes of a sync, nobody waits for it after its end.
class Upload::EndOfSync {
 public:
  explicit EndOfSync(Target& target) : target_(target) {}
  ~EndOfSync() {
    const std::lock_guard lock(target_.mutex);
    target_.syncing = false;
    target_.done.notify_all();
  }
  EndOfSync(const EndOfSync&) = delete;
  EndOfSync& operator=(const EndOfSync&) = delete;

 private:
  Target& target_;
};

void Upload::sync_behind() {
  if (written_ - flush_started_ >= flush_bytes) {
    const std::uint64_t from = std::exchange(flush_started_, written_);
    store_.syncer_.post([target = target_, from, bytes = written_ - from] {
      target->file->start_writing(from, bytes);
    });
  }
  if (written_ - sync_requested_ < store_.limits_.sync_every_bytes) return;
  {
    const std::lock_guard lock(target_->mutex);
    if (target_->syncing) return;  // the disk is behind: one request at a time
    target_->syncing = true;
  }
  sync_requested_ = written_;
  store_.syncer_.post(
      [target = target_, folder = path_.parent_path(), id = id_, upto = written_, &store = store_] {
        const EndOfSync end(*target);
        Status synced = target->file->sync();
        // Bytes under a name that a power failure takes away are lost as well.
        if (synced) synced = store.disk_.sync_directory(folder);
        if (synced) {
          const std::lock_guard lock(store.mutex_);
          const auto part = store.parts_.find(id);
          if (part != store.parts_.end() && part->second.busy) part->second.durable = upto;
        }
        const std::lock_guard lock(target->mutex);
        if (synced) {
          target->durable = upto;
        } else if (!target->failed) {
          target->failed = synced.error();
        }
      });
}

Status Upload::sync_all() {
  {
    std::unique_lock lock(target_->mutex);
    target_->done.wait(lock, [this] { return !target_->syncing; });
    if (target_->failed) return *target_->failed;
    if (target_->durable == written_ && written_ > 0) return {};
  }
  if (Status synced = target_->file->sync(); !synced) return synced;
  const std::lock_guard lock(target_->mutex);
  target_->durable = written_;
  return {};
}

Status Upload::suspend() {
  if (!open_) return {};
  Status synced = FEDQUEUE_PLANTED(offset_of_unsynced) ? Status() : sync_all();
  if (synced) synced = store_.disk_.sync_directory(path_.parent_path());
  // After a failed sync the system forgets which bytes are missing: none of them can be trusted.
  if (!synced) {
    FEDQUEUE_MARK(upload_not_suspended);
    (void)store_.disk_.remove(path_);
  }
  give_back(synced.has_value());
  return synced;
}

Result<std::filesystem::path> Upload::finish() {
  FEDQUEUE_ASSERT(open_ && written_ == bytes_total_);
  if (const std::string got = digest_.hex();
      got != announced_ && !FEDQUEUE_PLANTED(digest_not_checked)) {
    FEDQUEUE_MARK(upload_wrong_digest);
    (void)store_.disk_.remove(path_);
    give_back(false);
    return Error{Code::try_again,
                 "store update '" + id_.str() + "': the " + std::to_string(bytes_total_) +
                     " bytes received have the checksum " + got + ", but " + announced_ +
                     " was announced",
                 "Send the update again from the start; when this repeats, check the memory and "
                 "the network of the sending node."};
  }
  const auto settle = [this]() -> Status {
    if (Status synced = FEDQUEUE_PLANTED(update_not_synced) ? Status() : sync_all(); !synced) {
      (void)store_.disk_.remove(path_);
      return synced;
    }
    const std::filesystem::path whole = store_.update_path(id_);
    if (Status renamed = store_.disk_.rename(path_, whole); !renamed) return renamed;
    if (FEDQUEUE_PLANTED(name_not_synced)) return {};
    return store_.disk_.sync_directory(whole.parent_path());
  };
  if (Status settled = settle(); !settled) {
    give_back(false);
    return settled.error();
  }
  give_back(false);
  return store_.update_path(id_);
}

// Ends the writer's place; what is known of the part is kept when its bytes are durable.
void Upload::give_back(bool keep) {
  {
    // The syncer may still hold the file open for a hint; nothing is decided there.
    std::unique_lock lock(target_->mutex);
    target_->done.wait(lock, [this] { return !target_->syncing; });
  }
  const std::lock_guard lock(store_.mutex_);
  if (!keep || !FEDQUEUE_PLANTED(room_promised_for_ever)) store_.promised_.erase(id_);
  if (keep) {
    BlobStore::Part& part = store_.parts_[id_];
    part.durable = written_;
    part.digest = std::move(digest_);
    part.bytes_total = bytes_total_;
    part.announced = announced_;
    part.busy = false;
  } else {
    store_.parts_.erase(id_);
  }
  open_ = false;
}

}  // namespace fedqueue
