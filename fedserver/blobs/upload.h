// One update on its way in: appends, checksums and makes durable.
//
//   begin_upload ──append*──▶ finish ──▶ updates/ID.safetensors
//                      └────▶ suspend ─▶ uploads/ID.part, to be gone on with
//
// The checksum is taken while the bytes are in the processor's cache, and the disk works while the
// next bytes arrive. Destroying an upload suspends it. Not thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "fedserver/blobs/blobs.h"

namespace fedqueue {

class Upload {
 public:
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  [[nodiscard]] std::uint64_t bytes_total() const { return bytes_total_; }
  // The next byte that append() expects: the sender's position.
  [[nodiscard]] std::uint64_t offset() const { return written_ - skip_; }

  // REQUIRES: offset() + bytes.size() ≤ bytes_total().
  Status append(std::span<const std::byte> bytes);

  // Makes all bytes durable and keeps them for a later begin_upload(). Called by the destructor.
  Status suspend();

  // Checks the announced checksum, makes the update durable under its final name and returns that.
  // A wrong checksum throws all bytes away and is try_again.
  Result<std::filesystem::path> finish();

 private:
  friend class BlobStore;
  // Shared with the syncer's jobs, which may outlive the upload.
  struct Target {
    std::unique_ptr<DiskFile> file;
    std::mutex mutex;
    std::condition_variable done;
    bool syncing = false;         // guarded by mutex
    std::uint64_t durable = 0;    // guarded by mutex
    std::optional<Error> failed;  // guarded by mutex
  };

  class EndOfSync;

  Upload(BlobStore& store, UpdateId id, std::uint64_t bytes_total, std::string announced,
         std::unique_ptr<DiskFile> file);
  Status hash_prefix(std::uint64_t bytes);
  Status write_at_end(std::span<const std::byte> bytes);
  void sync_behind();
  Status sync_all();
  void give_back(bool keep);

  BlobStore& store_;
  UpdateId id_;
  std::uint64_t bytes_total_;
  std::string announced_;
  std::filesystem::path path_;
  std::shared_ptr<Target> target_;
  Xxh128 digest_;
  std::uint64_t written_ = 0;         // bytes in the file, all of them in digest_
  std::uint64_t skip_ = 0;            // of the coming bytes, how many are in the file already
  std::uint64_t flush_started_ = 0;   // the disk was told to start on bytes before this
  std::uint64_t sync_requested_ = 0;  // a sync of bytes before this was asked for
  bool open_ = true;
};

}  // namespace fedqueue
