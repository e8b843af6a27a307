#include "fedserver/journal/sqlite_journal.h"

#include <sqlite3.h>
#include <sys/vfs.h>

#include <utility>

namespace fedqueue {
namespace {

constexpr int schema_version = 1;
constexpr int application_id = 0x46515545;  // "FQUE"

constexpr const char* schema = R"(
  CREATE TABLE facts(
    sequence INTEGER PRIMARY KEY,
    at_us    INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    text     TEXT NOT NULL);
  CREATE TABLE uptime(
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    at_us INTEGER NOT NULL);
  INSERT INTO uptime VALUES (1, 0);
)";

// A prepared statement that is finalized with its scope.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) {
    sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  explicit operator bool() const { return statement_ != nullptr; }
  void bind(int index, std::int64_t value) { sqlite3_bind_int64(statement_, index, value); }
  void bind(int index, const std::string& text) {
    sqlite3_bind_text(statement_, index, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  }
  int step() { return sqlite3_step(statement_); }
  void reset() { sqlite3_reset(statement_); }
  [[nodiscard]] std::int64_t integer(int column) const {
    return sqlite3_column_int64(statement_, column);
  }
  [[nodiscard]] std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes == nullptr
               ? std::string()
               : std::string(bytes,
                             static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace

std::string network_file_system(const std::filesystem::path& path) {
  struct statfs facts {};
  std::filesystem::path existing = path;
  while (::statfs(existing.empty() ? "." : existing.c_str(), &facts) != 0) {
    if (existing.empty() || existing == existing.root_path()) return {};
    existing = existing.parent_path();
  }
  switch (static_cast<std::uint32_t>(facts.f_type)) {
    case 0x0BD00BD0:
      return "lustre";
    case 0x6969:
      return "nfs";
    case 0xFF534D42:
    case 0xFE534D42:
      return "cifs";
    case 0x47504653:
      return "gpfs";
    case 0x19830326:
      return "beegfs";
    case 0x00C36400:
      return "ceph";
    default:
      return {};
  }
}

SqliteJournal::SqliteJournal(sqlite3* database, std::filesystem::path file)
    : database_(database), file_(std::move(file)) {}

SqliteJournal::~SqliteJournal() { sqlite3_close(database_); }

Error SqliteJournal::fault(const std::string& attempted) const {
  const int code = sqlite3_errcode(database_);
  const bool full = code == SQLITE_FULL;
  return {full ? Code::storage_full : Code::journal,
          attempted + " '" + file_.string() + "': " + sqlite3_errmsg(database_),
          full ? "Free some space on that file system and start fedserver again; nothing was lost."
               : ""};
}

Status SqliteJournal::execute(const char* sql, const char* attempted) {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return fault(attempted);
}

Result<std::unique_ptr<SqliteJournal>> SqliteJournal::open(const std::filesystem::path& file) {
  const std::string network = network_file_system(file);
  if (!network.empty()) {
    return Error{Code::journal,
                 "open the journal '" + file.string() + "': it is on a network file system (" +
                     network + "), where SQLite's locks are not reliable",
                 "Keep the run directory on a local disk."};
  }
  sqlite3* database = nullptr;
  const int opened =
      sqlite3_open_v2(file.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  std::unique_ptr<SqliteJournal> journal(new SqliteJournal(database, file));
  if (opened != SQLITE_OK) return journal->fault("open the journal");
  if (Status ready = journal->prepare(); !ready) return ready.error();
  return journal;
}

// Others may open the new file at the same moment: `fedserver status` while `fedserver run` starts.
// SQLite does not wait by itself for the change to write-ahead logging, so it is tried again here.
Status SqliteJournal::prepare() {
  constexpr int tries_max = 500;
  constexpr int pause_ms = 10;
  sqlite3_busy_timeout(database_, 5000);
  for (int tries = 1;; ++tries) {
    Status ready = prepare_once();
    const int code = sqlite3_errcode(database_) & 0xff;
    const bool busy = code == SQLITE_BUSY || code == SQLITE_LOCKED;
    if (ready || !busy || tries == tries_max) return ready;
    sqlite3_sleep(pause_ms);
  }
}

Status SqliteJournal::prepare_once() {
  for (const char* pragma : {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"}) {
    if (Status set = execute(pragma, "set up the journal"); !set) return set;
  }
  Result<std::int64_t> version = number("PRAGMA user_version");
  if (!version) return version.error();
  if (*version == 0) return create_tables();
  const Result<std::int64_t> application = number("PRAGMA application_id");
  if (!application) return application.error();
  if (*application != application_id) {
    return Error{Code::journal,
                 "open the journal '" + file_.string() + "': it is a database of another program",
                 "Choose another run directory."};
  }
  if (*version > schema_version) {
    return Error{Code::journal,
                 "open the journal '" + file_.string() + "': it has schema " +
                     std::to_string(*version) + ", and this fedserver knows up to " +
                     std::to_string(schema_version),
                 "Use the newer fedserver that wrote it."};
  }
  return {};
}

Status SqliteJournal::create_tables() {
  if (Status begun = execute("BEGIN IMMEDIATE", "create the journal"); !begun) return begun;
  // Whoever held the lock before may have made them.
  const Result<std::int64_t> version = number("PRAGMA user_version");
  Status made = version ? Status() : Status(version.error());
  if (version && *version == 0) {
    const std::string create = std::string(schema) +
                               "PRAGMA application_id=" + std::to_string(application_id) +
                               ";PRAGMA user_version=" + std::to_string(schema_version) + ";";
    made = execute(create.c_str(), "create the journal");
  }
  if (made) made = execute("COMMIT", "create the journal");
  if (!made && sqlite3_get_autocommit(database_) == 0) {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return made;
}

Result<std::int64_t> SqliteJournal::number(const char* sql) const {
  Statement read(database_, sql);
  if (!read || read.step() != SQLITE_ROW) return fault("read the journal");
  return read.integer(0);
}

Result<std::vector<JournalRow>> SqliteJournal::rows(std::int64_t after, std::size_t limit) {
  const std::lock_guard lock(mutex_);
  Statement select(database_,
                   "SELECT sequence, at_us, kind, text FROM facts WHERE sequence > ? "
                   "ORDER BY sequence LIMIT ?");
  if (!select) return fault("read the journal");
  select.bind(1, after);
  select.bind(2, static_cast<std::int64_t>(limit));
  std::vector<JournalRow> found;
  int step = SQLITE_DONE;
  while ((step = select.step()) == SQLITE_ROW) {
    found.push_back(
        {select.integer(0), from_micros(select.integer(1)), select.text(2), select.text(3)});
  }
  if (step != SQLITE_DONE) return fault("read the journal");
  return found;
}

Status SqliteJournal::append(std::span<const JournalRow> rows) {
  const std::lock_guard lock(mutex_);
  if (Status begun = execute("BEGIN IMMEDIATE", "write the journal"); !begun) return begun;
  const auto write = [&]() -> Status {
    Statement insert(database_, "INSERT INTO facts VALUES (?, ?, ?, ?)");
    Statement uptime(database_, "UPDATE uptime SET at_us = max(at_us, ?)");
    if (!insert || !uptime) return fault("write the journal");
    for (const JournalRow& row : rows) {
      insert.bind(1, row.sequence);
      insert.bind(2, to_micros(row.at));
      insert.bind(3, row.kind);
      insert.bind(4, row.text);
      if (insert.step() != SQLITE_DONE) return fault("write the journal");
      insert.reset();
    }
    if (!rows.empty()) {
      uptime.bind(1, to_micros(rows.back().at));
      if (uptime.step() != SQLITE_DONE) return fault("write the journal");
    }
    return {};
  };
  Status written = write();
  if (written) written = execute("COMMIT", "write the journal");
  if (!written) sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  return written;
}

Result<Instant> SqliteJournal::uptime() {
  const std::lock_guard lock(mutex_);
  Statement select(database_, "SELECT at_us FROM uptime");
  if (!select || select.step() != SQLITE_ROW) return fault("read the journal");
  return from_micros(select.integer(0));
}

Status SqliteJournal::note_uptime(Instant now) {
  const std::lock_guard lock(mutex_);
  Statement update(database_, "UPDATE uptime SET at_us = max(at_us, ?)");
  if (!update) return fault("write the journal");
  update.bind(1, to_micros(now));
  if (update.step() != SQLITE_DONE) return fault("write the journal");
  return {};
}

}  // namespace fedqueue
