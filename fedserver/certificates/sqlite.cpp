#include "fedserver/certificates/sqlite.h"

#include <fcntl.h>

#include <cerrno>

#include "core/base/file.h"

namespace fedqueue::sqlite {
namespace {

constexpr int busy_timeout_ms = 5000;

}  // namespace

Error failure(sqlite3* database, const std::string& attempted) {
  const int code = sqlite3_errcode(database);
  const std::string message = attempted + ": " + sqlite3_errmsg(database);
  if (code == SQLITE_FULL) return storage_error(attempted, ENOSPC);
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    return {Code::try_again, message, "Another command is using the registry; try again."};
  }
  return {Code::storage, message, ""};
}

Result<Database> open(const std::filesystem::path& path) {
  // Made here, since SQLite would give it the mode of the umask; its log files take over the mode.
  if (!std::filesystem::exists(path)) {
    Result<FileDescriptor> made = open_file(path, O_RDWR | O_CREAT, 0600);
    if (!made) return made.error();
  }
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
  const int opened = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  Database database(raw);
  if (opened != SQLITE_OK) return failure(raw, "open '" + path.string() + "'");
  sqlite3_busy_timeout(raw, busy_timeout_ms);
  for (const char* pragma :
       {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON"}) {
    if (Status set = execute(raw, pragma); !set) {
      return within("open '" + path.string() + "'", set.error());
    }
  }
  return database;
}

Status execute(sqlite3* database, const std::string& sql) {
  if (sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return failure(database, sql.substr(0, 60));
}

Result<Statement> Statement::prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
      SQLITE_OK) {
    return failure(database, std::string("prepare ") + sql);
  }
  return Statement(statement);
}

Statement& Statement::restart() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  bound_ = 0;
  return *this;
}

Statement& Statement::bind(const std::string& text) {
  sqlite3_bind_text(statement_.get(), ++bound_, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  sqlite3_bind_int64(statement_.get(), ++bound_, number);
  return *this;
}

Result<bool> Statement::step(const std::string& attempted) {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_.get());
    return false;
  }
  Error error = failure(sqlite3_db_handle(statement_.get()), attempted);
  sqlite3_reset(statement_.get());
  return error;
}

Status Statement::finish(const std::string& attempted) {
  for (;;) {
    Result<bool> row = step(attempted);
    if (!row) return row.error();
    if (!*row) return {};
  }
}

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (data == nullptr) return "";
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

bool Statement::null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int Statement::rows_changed() const { return sqlite3_changes(sqlite3_db_handle(statement_.get())); }

Result<Transaction> Transaction::begin(sqlite3* database) {
  if (Status begun = execute(database, "BEGIN IMMEDIATE"); !begun) return begun.error();
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_ != nullptr) sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
}

Status Transaction::commit() {
  if (Status done = execute(database_, "COMMIT"); !done) return done;
  database_ = nullptr;
  return {};
}

}  // namespace fedqueue::sqlite
