#include "fedserver/blobs/upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

// The disk starts on a stretch of this length as soon as it is complete.
constexpr std::uint64_t flush_bytes = 8u << 20;
constexpr std::size_t read_bytes = 1u << 20;

}  // namespace

Upload::Upload(BlobStore& store, UpdateId id, std::uint64_t bytes_total, std::string announced,
               FileDescriptor fd)
    : store_(store),
      id_(std::move(id)),
      bytes_total_(bytes_total),
      announced_(std::move(announced)),
      path_(store.part_path(id_)),
      disk_(std::make_shared<Disk>()) {
  disk_->fd = std::move(fd);
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
    const ssize_t count = ::pread(disk_->fd.get(), buffer.data(), want, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return storage_error("read '" + path_.string() + "'", errno);
    if (count == 0) {
      return Error{Code::storage, "read '" + path_.string() + "': it became shorter", ""};
    }
    digest_.update({buffer.data(), static_cast<std::size_t>(count)});
    done += static_cast<std::uint64_t>(count);
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
  const std::lock_guard lock(disk_->mutex);
  if (disk_->failed) return *disk_->failed;
  return {};
}

Status Upload::write_at_end(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(disk_->fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(written_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      Error error = storage_error("write '" + path_.string() + "'", errno);
      if (error.code == Code::storage_full) error.cure = "Free space on the server's disk.";
      return error;
    }
    const std::size_t taken = static_cast<std::size_t>(count);
    digest_.update(bytes.first(taken));
    written_ += taken;
    bytes = bytes.subspan(taken);
  }
  return {};
}

void Upload::sync_behind() {
  if (written_ - flush_started_ >= flush_bytes) {
    const std::uint64_t from = std::exchange(flush_started_, written_);
    store_.syncer_.post([disk = disk_, from, bytes = written_ - from] {
      // A hint: what the disk refuses here, the sync below reports.
      (void)::sync_file_range(disk->fd.get(), static_cast<off_t>(from), static_cast<off_t>(bytes),
                              SYNC_FILE_RANGE_WRITE);
    });
  }
  if (written_ - sync_requested_ < store_.limits_.sync_every_bytes) return;
  {
    const std::lock_guard lock(disk_->mutex);
    if (disk_->syncing) return;  // the disk is behind: one request at a time
    disk_->syncing = true;
  }
  sync_requested_ = written_;
  store_.syncer_.post([disk = disk_, path = path_, id = id_, upto = written_, &store = store_] {
    const bool good = ::fdatasync(disk->fd.get()) == 0;
    const int cause = errno;
    if (good) {
      const std::lock_guard lock(store.mutex_);
      const auto part = store.parts_.find(id);
      if (part != store.parts_.end() && part->second.busy) part->second.durable = upto;
    }
    const std::lock_guard lock(disk->mutex);
    disk->syncing = false;
    if (good) {
      disk->durable = upto;
    } else if (!disk->failed) {
      disk->failed = storage_error("sync '" + path.string() + "'", cause);
    }
    disk->done.notify_all();
  });
}

Status Upload::sync_all() {
  {
    std::unique_lock lock(disk_->mutex);
    disk_->done.wait(lock, [this] { return !disk_->syncing; });
    if (disk_->failed) return *disk_->failed;
    if (disk_->durable == written_ && written_ > 0) return {};
  }
  if (::fdatasync(disk_->fd.get()) != 0) {
    return storage_error("sync '" + path_.string() + "'", errno);
  }
  const std::lock_guard lock(disk_->mutex);
  disk_->durable = written_;
  return {};
}

Status Upload::suspend() {
  if (!open_) return {};
  Status synced = sync_all();
  if (synced) synced = sync_directory(path_.parent_path());
  // After a failed sync the system forgets which bytes are missing: none of them can be trusted.
  if (!synced) ::unlink(path_.c_str());
  give_back(synced.has_value());
  return synced;
}

Result<std::filesystem::path> Upload::finish() {
  FEDQUEUE_ASSERT(open_ && written_ == bytes_total_);
  if (const std::string got = digest_.hex(); got != announced_) {
    ::unlink(path_.c_str());
    give_back(false);
    return Error{Code::try_again,
                 "store update '" + id_.str() + "': the " + std::to_string(bytes_total_) +
                     " bytes received have the checksum " + got + ", but " + announced_ +
                     " was announced",
                 "Send the update again from the start; when this repeats, check the memory and "
                 "the network of the sending node."};
  }
  const auto settle = [this]() -> Status {
    if (Status synced = sync_all(); !synced) {
      ::unlink(path_.c_str());
      return synced;
    }
    const std::filesystem::path whole = store_.update_path(id_);
    if (::rename(path_.c_str(), whole.c_str()) != 0) {
      return storage_error("rename '" + path_.string() + "' to '" + whole.string() + "'", errno);
    }
    return sync_directory(whole.parent_path());
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
    std::unique_lock lock(disk_->mutex);
    disk_->done.wait(lock, [this] { return !disk_->syncing; });
  }
  const std::lock_guard lock(store_.mutex_);
  store_.promised_.erase(id_);
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
