#include "fedserver/blobs/blobs.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "core/base/assert.h"
#include "core/base/points.h"
#include "fedserver/blobs/upload.h"

namespace fedqueue {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view update_suffix = ".safetensors";
constexpr std::string_view part_suffix = ".part";
constexpr auto part_age_max = std::chrono::hours(24 * 7);

// A model's file name comes from the journal or the reducer: it must stay within the folder.
bool is_plain_name(const std::string& file) {
  return !file.empty() && file.front() != '.' && file.find('/') == std::string::npos;
}

// Calls visit(name without suffix, entry) for the files with this suffix.
template <typename Visit>
Status each_file(Disk& disk, const fs::path& folder, std::string_view suffix, Visit visit) {
  const Result<std::vector<Disk::Entry>> entries = disk.list(folder);
  if (!entries) return entries.error();
  for (const Disk::Entry& entry : *entries) {
    if (!entry.name.ends_with(suffix)) continue;
    visit(entry.name.substr(0, entry.name.size() - suffix.size()), entry);
  }
  return {};
}

}  // namespace

BlobStore::BlobStore(fs::path folder, BlobLimits limits, Disk& disk, Syncing syncing)
    : folder_(std::move(folder)), limits_(limits), disk_(disk), syncer_(syncing) {}

BlobStore::~BlobStore() = default;

Result<std::unique_ptr<BlobStore>> BlobStore::open(fs::path folder, BlobLimits limits, Disk& disk,
                                                   Syncing syncing) {
  for (const char* part : {"models", "updates", "uploads"}) {
    if (Status made = disk.make_directories(folder / part); !made) return made.error();
  }
  if (Status synced = disk.sync_directory(folder); !synced) return synced.error();
  return std::unique_ptr<BlobStore>(new BlobStore(std::move(folder), limits, disk, syncing));
}

Status BlobStore::remove_durably(const fs::path& path) const {
  if (Status removed = disk_.remove(path); !removed) return removed;
  return disk_.sync_directory(path.parent_path());
}

// --- models

std::string BlobStore::model_file(Version version) {
  char name[64];
  std::snprintf(name, sizeof name, "round-%04lld.safetensors", static_cast<long long>(version));
  return name;
}

std::string BlobStore::state_file(Version version) {
  char name[64];
  std::snprintf(name, sizeof name, "state-%04lld.safetensors", static_cast<long long>(version));
  return name;
}

fs::path BlobStore::model_path(const std::string& file) const {
  FEDQUEUE_ASSERT(is_plain_name(file));
  return models() / file;
}

Status BlobStore::link_latest(const std::string& file) {
  FEDQUEUE_ASSERT(is_plain_name(file));
  const fs::path link = folder_ / "latest";
  const fs::path temporary = folder_ / "latest.tmp";
  const std::string target = "models/" + file;
  if (Status removed = disk_.remove(temporary); !removed) return removed;
  if (Status linked = disk_.link(target, temporary); !linked) return linked;
  if (Status renamed = disk_.rename(temporary, link); !renamed) return renamed;
  return disk_.sync_directory(folder_);
}

Status BlobStore::remove_model(const std::string& file) { return remove_durably(model_path(file)); }

// --- updates

fs::path BlobStore::update_path(const UpdateId& id) const {
  return folder_ / "updates" / (id.str() + std::string(update_suffix));
}

fs::path BlobStore::part_path(const UpdateId& id) const {
  return folder_ / "uploads" / (id.str() + std::string(part_suffix));
}

Status BlobStore::remove_update(const UpdateId& id) { return remove_durably(update_path(id)); }

Status BlobStore::reopen_update(const UpdateId& id) {
  const fs::path whole = update_path(id);
  const fs::path part = part_path(id);
  FEDQUEUE_MARK(upload_reopened);
  if (Status renamed = disk_.rename(whole, part); !renamed) return renamed;
  return disk_.sync_directory(part.parent_path());
}

// --- uploads

Result<BlobStore::Part*> BlobStore::find_part(const UpdateId& id) {
  if (const auto known = parts_.find(id); known != parts_.end()) return &known->second;
  const fs::path path = part_path(id);
  const Result<std::optional<std::uint64_t>> bytes = disk_.bytes(path);
  if (!bytes) return bytes.error();
  if (!*bytes) return static_cast<Part*>(nullptr);
  // Left by an earlier server: what it had written, and the name, may not be on the disk yet.
  Result<std::unique_ptr<DiskFile>> file = disk_.open(path, Disk::Mode::read);
  if (!file) return file.error();
  if (Status synced = (*file)->sync(); !synced) return synced.error();
  if (Status synced = disk_.sync_directory(path.parent_path()); !synced) return synced.error();
  FEDQUEUE_MARK(upload_part_found);
  Part& part = parts_[id];
  part.durable = **bytes;
  return &part;
}

Result<std::optional<std::uint64_t>> BlobStore::durable_bytes(const UpdateId& id) {
  const std::lock_guard lock(mutex_);
  Result<Part*> part = find_part(id);
  if (!part) return part.error();
  if (*part == nullptr) return std::optional<std::uint64_t>();
  return std::optional<std::uint64_t>((*part)->durable);
}

Status BlobStore::check_room(const UpdateId& id, std::uint64_t bytes_more) const {
  const std::string attempted = "store update '" + id.str() + "'";
  std::uint64_t promised = bytes_more;
  for (const auto& [other, bytes_total] : promised_) {
    const Result<std::optional<std::uint64_t>> found = disk_.bytes(part_path(other));
    const std::uint64_t arrived = found && *found ? **found : 0;
    promised += arrived > bytes_total ? bytes_total : bytes_total - arrived;
  }
  if (limits_.quota_bytes > 0) {
    const std::uint64_t used = bytes_used();
    if (promised > limits_.quota_bytes || used > limits_.quota_bytes - promised) {
      return Error{Code::storage_full,
                   attempted + ": " + std::to_string(promised) +
                       " more bytes do not fit into the " + "quota of " +
                       std::to_string(limits_.quota_bytes) + " bytes, of which " +
                       std::to_string(used) + " are used",
                   "Raise the server's storage quota, or remove old models."};
    }
  }
  const Result<std::uint64_t> free = disk_.free_bytes(folder_);
  if (!free) return within(attempted, free.error());
  if (promised > *free || *free - promised < limits_.free_bytes_min) {
    FEDQUEUE_MARK(blobs_full);
    return Error{Code::storage_full,
                 attempted + ": the server's disk has " + std::to_string(*free) +
                     " bytes left, of which " + std::to_string(limits_.free_bytes_min) +
                     " stay free and " + std::to_string(promised) + " would be needed",
                 "Free space on the server's disk; the client tries again by itself."};
  }
  return {};
}

Result<std::unique_ptr<Upload>> BlobStore::begin_upload(const UpdateId& id,
                                                        std::uint64_t bytes_total,
                                                        std::uint64_t from,
                                                        const std::string& digest) {
  const std::string attempted = "store update '" + id.str() + "'";
  if (Result<UpdateParts> parts = parse_update_id(id.str()); !parts) return parts.error();
  if (bytes_total > limits_.update_bytes_max) {
    return Error{Code::too_large,
                 attempted + ": it has " + std::to_string(bytes_total) + " bytes, but at most " +
                     std::to_string(limits_.update_bytes_max) + " are allowed",
                 "Raise the server's update_bytes_max, or send a smaller model."};
  }
  std::unique_ptr<Upload> upload;
  std::uint64_t prefix = 0;
  bool hash_needed = false;
  {
    const std::lock_guard lock(mutex_);
    Result<Part*> found = find_part(id);
    if (!found) return found.error();
    Part fresh;
    Part& part = *found != nullptr ? **found : fresh;
    if (part.busy) {
      return Error{Code::conflict, attempted + ": another request is sending it", ""};
    }
    const bool other_file =
        !part.announced.empty() && (part.announced != digest || part.bytes_total != bytes_total);
    if (other_file) FEDQUEUE_MARK(upload_other_file);
    if (from == 0 || other_file || part.durable > bytes_total) part = Part{};
    if (from > 0 && from == part.durable) FEDQUEUE_MARK(upload_resumed);
    if (from > 0 && from < part.durable) FEDQUEUE_MARK(upload_overlapped);
    if (from > part.durable) {
      FEDQUEUE_MARK(upload_beyond);
      return Error{Code::conflict,
                   attempted + ": it goes on at byte " + std::to_string(from) + ", but only " +
                       std::to_string(part.durable) + " bytes are here",
                   "Ask with HEAD how many bytes are here, and go on from there."};
    }
    if (Status room = check_room(id, bytes_total - part.durable); !room) return room.error();
    const Disk::Mode mode = part.durable == 0 ? Disk::Mode::replace : Disk::Mode::write;
    Result<std::unique_ptr<DiskFile>> file = disk_.open(part_path(id), mode);
    if (!file) return file.error();
    upload.reset(new Upload(*this, id, bytes_total, digest, std::move(*file)));
    prefix = part.durable;
    hash_needed = prefix > 0 && !part.digest;
    if (part.digest) upload->digest_ = std::move(*part.digest);
    part.digest.reset();
    part.busy = true;
    part.bytes_total = bytes_total;
    part.announced = digest;
    if (*found == nullptr) parts_[id] = std::move(part);
    promised_[id] = bytes_total;
  }
  upload->written_ = upload->flush_started_ = upload->sync_requested_ = prefix;
  upload->target_->durable = prefix;
  upload->skip_ = prefix - from;
  if (hash_needed) {
    FEDQUEUE_MARK(upload_hashed_again);
    if (Status hashed = upload->hash_prefix(prefix); !hashed) {
      upload->give_back(false);
      return hashed.error();
    }
  }
  return upload;
}

// --- house-keeping

Result<SweepReport> BlobStore::sweep(const std::set<UpdateId>& updates,
                                     const std::set<std::string>& models) {
  SweepReport report;
  Status listed = each_file(disk_, folder_ / "updates", update_suffix,
                            [&](const std::string& name, const Disk::Entry&) {
                              const UpdateId id(name);
                              if (updates.contains(id)) return;
                              if (remove_durably(update_path(id))) ++report.updates_removed;
                            });
  if (!listed) return listed.error();
  listed = each_file(disk_, this->models(), "", [&](const std::string& name, const Disk::Entry&) {
    if (models.contains(name)) return;
    if (remove_durably(this->models() / name)) ++report.models_removed;
  });
  if (!listed) return listed.error();
  listed = each_file(disk_, folder_ / "uploads", part_suffix,
                     [&](const std::string& name, const Disk::Entry& entry) {
                       const UpdateId id(name);
                       const std::lock_guard lock(mutex_);
                       const auto known = parts_.find(id);
                       if (entry.age < part_age_max) return;
                       if (known != parts_.end() && known->second.busy) return;
                       parts_.erase(id);
                       if (remove_durably(part_path(id))) ++report.parts_removed;
                     });
  if (!listed) return listed.error();
  if (report.updates_removed + report.models_removed > 0) FEDQUEUE_MARK(blobs_swept);
  return report;
}

std::size_t BlobStore::uploads_open() const {
  const std::lock_guard lock(mutex_);
  return promised_.size();
}

std::uint64_t BlobStore::bytes_used() const {
  std::uint64_t bytes = 0;
  for (const char* part : {"models", "updates", "uploads"}) {
    (void)each_file(disk_, folder_ / part, "",
                    [&](const std::string&, const Disk::Entry& entry) { bytes += entry.bytes; });
  }
  return bytes;
}

}  // namespace fedqueue
