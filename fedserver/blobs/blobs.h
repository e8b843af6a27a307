// The server's folder of models and updates, and nothing but bytes: whether an update counts is
// what the journal says.
//
//   models/round-NNNN.safetensors   published models, written by the reducer
//   models/state-NNNN.safetensors   the server optimiser's state beside the newest of them
//   latest -> models/round-NNNN.safetensors
//   updates/ID.safetensors          whole updates with the right checksum
//   uploads/ID.part                 what has arrived of an update
//
// Promises: a name in models/ or updates/ stands for a whole, durable file; durable_bytes() counts
// only bytes that survive a power failure; one writer per update.
//
// After a kill the length of a part is what had been written. After a power failure some file
// systems may show a length whose last bytes never arrived; the checksum of the whole finds that
// and the upload starts over.
//
// Thread-safe. The calls read and write files: keep them off threads that must not wait.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "fedserver/blobs/disk.h"
#include "fedserver/blobs/syncer.h"

namespace fedqueue {

class Upload;

struct BlobLimits {
  std::uint64_t update_bytes_max = 1ull << 40;
  std::uint64_t quota_bytes = 0;              // of models and updates together; 0: the disk decides
  std::uint64_t free_bytes_min = 256u << 20;  // always left on the disk
  std::uint64_t sync_every_bytes = 64u << 20;
};

// What a start found and removed.
struct SweepReport {
  std::size_t updates_removed = 0;
  std::size_t models_removed = 0;
  std::size_t parts_removed = 0;
};

class BlobStore {
 public:
  // Creates the folders where they are missing. The disk outlives the store.
  static Result<std::unique_ptr<BlobStore>> open(std::filesystem::path folder, BlobLimits limits,
                                                 Disk& disk = posix_disk(),
                                                 Syncing syncing = Syncing::behind);
  ~BlobStore();

  [[nodiscard]] const BlobLimits& limits() const { return limits_; }

  // --- models
  [[nodiscard]] static std::string model_file(Version version);  // "round-0007.safetensors"
  // "state-0007.safetensors": what the server optimiser remembers beside that version.
  [[nodiscard]] static std::string state_file(Version version);
  [[nodiscard]] std::filesystem::path models() const { return folder_ / "models"; }
  [[nodiscard]] std::filesystem::path model_path(const std::string& file) const;
  // Points `latest` at this file of models/, atomically and durably.
  Status link_latest(const std::string& file);
  Status remove_model(const std::string& file);

  // --- updates
  [[nodiscard]] std::filesystem::path update_path(const UpdateId& id) const;
  Status remove_update(const UpdateId& id);
  // A whole update that could not be decided becomes a part with all its bytes again, so that the
  // client need not send them a second time.
  Status reopen_update(const UpdateId& id);

  // --- uploads
  // Bytes that need not be sent again; nothing when the update is unknown.
  Result<std::optional<std::uint64_t>> durable_bytes(const UpdateId& id);
  // Takes the writer's place. `from` = 0 starts over; 0 < from ≤ durable goes on (bytes that are
  // there already are skipped); conflict when `from` is beyond, or when another writer is at work.
  // storage_full when `bytes_total` would not fit.
  Result<std::unique_ptr<Upload>> begin_upload(const UpdateId& id, std::uint64_t bytes_total,
                                               std::uint64_t from, const std::string& digest);

  // --- house-keeping
  // Removes updates and models that nothing refers to, and parts nobody went on with for a week.
  Result<SweepReport> sweep(const std::set<UpdateId>& updates, const std::set<std::string>& models);
  [[nodiscard]] std::uint64_t bytes_used() const;
  // Uploads that have a writer, and room promised to them.
  [[nodiscard]] std::size_t uploads_open() const;

 private:
  friend class Upload;
  // What is known of a part besides its bytes.
  struct Part {
    std::uint64_t durable = 0;
    std::optional<Xxh128> digest;  // of the first `durable` bytes
    std::uint64_t bytes_total = 0;
    std::string announced;  // digest of the whole; empty after a restart of the server
    bool busy = false;      // has a writer
  };

  BlobStore(std::filesystem::path folder, BlobLimits limits, Disk& disk, Syncing syncing);
  Status remove_durably(const std::filesystem::path& path) const;
  [[nodiscard]] std::filesystem::path part_path(const UpdateId& id) const;
  Result<Part*> find_part(const UpdateId& id);  // REQUIRES: mutex_ held
  Status check_room(const UpdateId& id, std::uint64_t bytes_more) const;

  std::filesystem::path folder_;
  BlobLimits limits_;
  Disk& disk_;
  mutable std::mutex mutex_;
  std::map<UpdateId, Part> parts_;              // guarded by mutex_
  std::map<UpdateId, std::uint64_t> promised_;  // whole sizes on their way in; guarded by mutex_
  Syncer syncer_;
};

}  // namespace fedqueue
