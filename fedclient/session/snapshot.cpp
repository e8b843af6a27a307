#include "fedclient/session/snapshot.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/file.h"

namespace fedqueue {
namespace {

constexpr const char* update_suffix = ".safetensors";
constexpr const char* note_suffix = ".json";

std::filesystem::path note_of(const Snapshot& snapshot) {
  std::filesystem::path path = snapshot.update;
  return path.replace_extension(note_suffix);
}

Result<Snapshot> read_note(const std::filesystem::path& note) {
  Result<std::string> text = read_file(note, json_bytes_max);
  if (!text) return text.error();
  Snapshot snapshot;
  snapshot.id = UpdateId(note.stem().string());
  snapshot.update = note;
  snapshot.update.replace_extension(update_suffix);
  if (Result<UpdateParts> parts = parse_update_id(snapshot.id.str()); !parts) return parts.error();
  Result<UpdateMetadata> metadata = decode<UpdateMetadata>(*text);
  if (!metadata) return metadata.error();
  snapshot.metadata = *metadata;
  const nlohmann::json document = nlohmann::json::parse(*text, nullptr, false);
  const auto token = document.find("job_token");
  if (token != document.end() && token->is_string()) snapshot.token = token->get<std::string>();
  const auto controls = document.find("controls");
  if (controls != document.end() && controls->is_string()) {
    snapshot.controls = controls->get<std::string>();
  }
  return snapshot;
}

}  // namespace

Result<std::filesystem::path> snapshot_file(const std::filesystem::path& job_directory,
                                            const UpdateId& id) {
  const std::filesystem::path directory = job_directory / "snapshots";
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) {
    return storage_error("make the directory '" + directory.string() + "'", failure.value());
  }
  return directory / (id.str() + update_suffix);
}

Status write_snapshot_note(const Snapshot& snapshot) {
  nlohmann::json note = snapshot.metadata;
  note["job_token"] = snapshot.token;
  if (!snapshot.controls.empty()) note["controls"] = snapshot.controls.string();
  return write_file_atomic(note_of(snapshot), note.dump() + "\n", 0600);
}

std::vector<Snapshot> list_snapshots(const std::filesystem::path& job_directory) {
  std::vector<Snapshot> snapshots;
  std::error_code failure;
  std::filesystem::directory_iterator entries(job_directory / "snapshots", failure);
  for (; !failure && entries != std::filesystem::directory_iterator(); entries.increment(failure)) {
    if (entries->path().extension() != note_suffix) continue;
    Result<Snapshot> snapshot = read_note(entries->path());
    std::error_code missing;
    if (snapshot && std::filesystem::is_regular_file(snapshot->update, missing)) {
      snapshots.push_back(std::move(*snapshot));
    }
  }
  std::sort(snapshots.begin(), snapshots.end(), [](const Snapshot& a, const Snapshot& b) {
    const int left = parse_update_id(a.id.str())->segment;
    const int right = parse_update_id(b.id.str())->segment;
    return left != right ? left < right : a.id < b.id;
  });
  return snapshots;
}

void remove_snapshot(const Snapshot& snapshot) {
  std::error_code ignored;
  // The note first: without it the rest does not count.
  std::filesystem::remove(note_of(snapshot), ignored);
  std::filesystem::remove(snapshot.update, ignored);
}

void settle_snapshot(const Snapshot& snapshot, Disposition disposition) {
  if (disposition != Disposition::rejected && !snapshot.controls.empty()) {
    const std::filesystem::path pending = snapshot.controls / "pending";
    std::error_code failed;
    std::filesystem::create_directories(pending, failed);
    // Moved before the note goes: a kill in between only leaves the note, which then means nothing.
    std::filesystem::rename(snapshot.update, pending / snapshot.update.filename(), failed);
    if (!failed) (void)sync_directory(pending);
  }
  remove_snapshot(snapshot);
}

}  // namespace fedqueue
