#include "fedserver/certificates/registry.h"

#include <algorithm>
#include <cctype>
#include <mutex>
#include <set>

#include "core/base/assert.h"
#include "fedserver/certificates/sqlite.h"

namespace fedqueue {
namespace {

constexpr int schema_version = 1;

constexpr const char* schema = R"sql(
CREATE TABLE certificates (
  fingerprint TEXT PRIMARY KEY CHECK (length(fingerprint) = 64),
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  serial TEXT NOT NULL UNIQUE,
  not_before INTEGER NOT NULL,
  not_after INTEGER NOT NULL,
  issued_at INTEGER NOT NULL,
  revoked_at INTEGER
) WITHOUT ROWID;
CREATE INDEX certificates_by_name ON certificates (name);
CREATE TABLE facilities (
  name TEXT PRIMARY KEY,
  samples INTEGER NOT NULL CHECK (samples > 0),
  enrolled_at INTEGER NOT NULL
) WITHOUT ROWID;
)sql";

constexpr const char* select_columns =
    "SELECT fingerprint, kind, name, serial, not_before, not_after, issued_at, revoked_at "
    "FROM certificates ";

std::int64_t seconds_of(CalendarTime time) { return time.time_since_epoch().count(); }
CalendarTime time_of(std::int64_t seconds) { return CalendarTime(std::chrono::seconds(seconds)); }

CertificateRecord record_from(const sqlite::Statement& row) {
  CertificateRecord record;
  record.fingerprint = row.text(0);
  record.kind = row.text(1);
  record.name = row.text(2);
  record.serial = row.text(3);
  record.not_before = time_of(row.integer(4));
  record.not_after = time_of(row.integer(5));
  record.issued_at = time_of(row.integer(6));
  if (!row.null(7)) record.revoked_at = time_of(row.integer(7));
  return record;
}

// "AB:CD:…" as other tools print it → "abcd…"; empty if it is no hexadecimal text.
std::string fingerprint_form(const std::string& text) {
  std::string digits;
  for (const char c : text) {
    if (c == ':') continue;
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return "";
    digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return digits.size() >= 8 && digits.size() <= 64 ? digits : "";
}

Status make_schema(sqlite3* database) {
  Result<sqlite::Transaction> transaction = sqlite::Transaction::begin(database);
  if (!transaction) return transaction.error();
  std::int64_t version = 0;
  {
    Result<sqlite::Statement> ask = sqlite::Statement::prepare(database, "PRAGMA user_version");
    if (!ask) return ask.error();
    Result<bool> row = ask->step("read the registry's version");
    if (!row) return row.error();
    version = ask->integer(0);
  }
  if (version > schema_version) {
    return Error{Code::storage,
                 "the certificate registry has format " + std::to_string(version) +
                     ", this program knows " + std::to_string(schema_version),
                 "Use the newer fedserver that made it."};
  }
  if (version == 0) {
    if (Status made = sqlite::execute(database, schema); !made) return made;
    const std::string mark = "PRAGMA user_version=" + std::to_string(schema_version);
    if (Status set = sqlite::execute(database, mark); !set) return set;
  }
  return transaction->commit();
}

}  // namespace

struct Registry::State {
  sqlite::Database database;
  std::optional<sqlite::Statement> lookup;  // the one that every request needs
  std::mutex mutex;

  Result<std::vector<CertificateRecord>> select(const std::string& condition,
                                                const std::vector<std::string>& values) {
    Result<sqlite::Statement> query =
        sqlite::Statement::prepare(database.get(), (select_columns + condition).c_str());
    if (!query) return query.error();
    query->restart();
    for (const std::string& value : values) query->bind(value);
    std::vector<CertificateRecord> records;
    for (;;) {
      Result<bool> row = query->step("read the certificate registry");
      if (!row) return row.error();
      if (!*row) return records;
      records.push_back(record_from(*query));
    }
  }

  Result<std::vector<CertificateRecord>> meant(const std::string& name_or_fingerprint,
                                               const std::string& kind);
  Result<std::optional<EnrolledFacility>> facility(const FacilityId& name);
};

Registry::Registry(std::unique_ptr<State> state) : state_(std::move(state)) {}
Registry::Registry(Registry&&) noexcept = default;
Registry& Registry::operator=(Registry&&) noexcept = default;
Registry::~Registry() = default;

Result<Registry> Registry::open(const std::filesystem::path& path) {
  Result<sqlite::Database> database = sqlite::open(path);
  if (!database) return within("open the certificate registry", database.error());
  if (Status made = make_schema(database->get()); !made) {
    return within("open the certificate registry '" + path.string() + "'", made.error());
  }
  auto state = std::make_unique<State>();
  state->database = std::move(*database);
  Result<sqlite::Statement> lookup = sqlite::Statement::prepare(
      state->database.get(),
      "SELECT kind, name, revoked_at IS NOT NULL, not_after FROM certificates "
      "WHERE fingerprint = ?");
  if (!lookup) return lookup.error();
  state->lookup = std::move(*lookup);
  return Registry(std::move(state));
}

Status Registry::record(const CertificateRecord& certificate) {
  const std::lock_guard lock(state_->mutex);
  Result<sqlite::Statement> insert = sqlite::Statement::prepare(
      state_->database.get(),
      "INSERT INTO certificates (fingerprint, kind, name, serial, not_before, not_after, issued_at)"
      " VALUES (?, ?, ?, ?, ?, ?, ?)");
  if (!insert) return insert.error();
  insert->restart()
      .bind(certificate.fingerprint)
      .bind(certificate.kind)
      .bind(certificate.name)
      .bind(certificate.serial)
      .bind(seconds_of(certificate.not_before))
      .bind(seconds_of(certificate.not_after))
      .bind(seconds_of(certificate.issued_at));
  return insert->finish("record the certificate of " + certificate.name);
}

Result<std::optional<Standing>> Registry::lookup(const std::string& fingerprint) const {
  const std::lock_guard lock(state_->mutex);
  sqlite::Statement& query = *state_->lookup;
  Result<bool> row = query.restart().bind(fingerprint).step("look up a certificate");
  if (!row) return row.error();
  if (!*row) return std::optional<Standing>();
  Standing standing{query.text(0), query.text(1), query.integer(2) != 0, time_of(query.integer(3))};
  // Ends the read, or the next question would still see this moment's state.
  query.restart();
  return std::optional<Standing>(std::move(standing));
}

Result<std::vector<CertificateRecord>> Registry::list() const {
  const std::lock_guard lock(state_->mutex);
  return state_->select("ORDER BY issued_at, kind, name, fingerprint", {});
}

Result<std::vector<CertificateRecord>> Registry::State::meant(
    const std::string& name_or_fingerprint, const std::string& kind) {
  Result<std::vector<CertificateRecord>> by_name =
      kind.empty() ? select("WHERE name = ?", {name_or_fingerprint})
                   : select("WHERE name = ? AND kind = ?", {name_or_fingerprint, kind});
  if (!by_name) return by_name;
  if (!by_name->empty()) {
    std::set<std::string> kinds;
    for (const CertificateRecord& record : *by_name) kinds.insert(record.kind);
    if (kinds.size() > 1) {
      return Error{Code::conflict,
                   "the name '" + name_or_fingerprint + "' has certificates of several kinds",
                   "Say which with --kind, or give a fingerprint from 'fedserver cert list DIR'."};
    }
    return by_name;
  }
  const std::string digits = fingerprint_form(name_or_fingerprint);
  if (!digits.empty()) {
    Result<std::vector<CertificateRecord>> by_digits =
        select("WHERE substr(fingerprint, 1, " + std::to_string(digits.size()) + ") = ?", {digits});
    if (!by_digits) return by_digits;
    if (by_digits->size() > 1) {
      return Error{Code::conflict,
                   "several certificates have a fingerprint that begins with " + digits,
                   "Give more digits; 'fedserver cert list DIR --format json' shows all 64."};
    }
    if (by_digits->size() == 1) return by_digits;
  }
  return Error{Code::not_found,
               "no " + (kind.empty() ? "" : kind + " ") + "certificate was issued to '" +
                   name_or_fingerprint + "' or has that fingerprint",
               "'fedserver cert list DIR' shows all."};
}

Result<std::vector<CertificateRecord>> Registry::revoke(const std::string& name_or_fingerprint,
                                                        const std::string& kind, CalendarTime now) {
  const std::lock_guard lock(state_->mutex);
  sqlite3* database = state_->database.get();
  Result<sqlite::Transaction> transaction = sqlite::Transaction::begin(database);
  if (!transaction) return transaction.error();
  Result<std::vector<CertificateRecord>> records = state_->meant(name_or_fingerprint, kind);
  if (!records) return records.error();
  std::erase_if(*records, [](const CertificateRecord& r) { return r.revoked_at.has_value(); });
  {
    Result<sqlite::Statement> update = sqlite::Statement::prepare(
        database, "UPDATE certificates SET revoked_at = ? WHERE fingerprint = ?");
    if (!update) return update.error();
    for (CertificateRecord& record : *records) {
      update->restart().bind(seconds_of(now)).bind(record.fingerprint);
      if (Status done = update->finish("revoke the certificate of " + record.name); !done) {
        return done.error();
      }
      record.revoked_at = now;
    }
  }
  if (Status done = transaction->commit(); !done) return done.error();
  return records;
}

Result<std::optional<EnrolledFacility>> Registry::State::facility(const FacilityId& name) {
  Result<sqlite::Statement> query = sqlite::Statement::prepare(
      database.get(), "SELECT name, samples, enrolled_at FROM facilities WHERE name = ?");
  if (!query) return query.error();
  Result<bool> row = query->restart().bind(name.str()).step("read the facilities");
  if (!row) return row.error();
  if (!*row) return std::optional<EnrolledFacility>();
  return std::optional(
      EnrolledFacility{FacilityId(query->text(0)), query->integer(1), time_of(query->integer(2))});
}

Status Registry::enrol(const FacilityId& facility, std::int64_t samples, CalendarTime now) {
  FEDQUEUE_ASSERT(samples > 0);
  const std::lock_guard lock(state_->mutex);
  sqlite3* database = state_->database.get();
  Result<sqlite::Transaction> transaction = sqlite::Transaction::begin(database);
  if (!transaction) return transaction.error();
  Result<std::optional<EnrolledFacility>> earlier = state_->facility(facility);
  if (!earlier) return earlier.error();
  if (*earlier) {
    if ((*earlier)->samples == samples) return {};
    return Error{Code::conflict,
                 "the facility '" + facility.str() + "' is enrolled with " +
                     std::to_string((*earlier)->samples) + " samples, not " +
                     std::to_string(samples),
                 "To change its share on purpose: fedserver cert samples DIR " + facility.str() +
                     " --samples " + std::to_string(samples)};
  }
  {
    Result<sqlite::Statement> insert = sqlite::Statement::prepare(
        database, "INSERT INTO facilities (name, samples, enrolled_at) VALUES (?, ?, ?)");
    if (!insert) return insert.error();
    insert->restart().bind(facility.str()).bind(samples).bind(seconds_of(now));
    if (Status done = insert->finish("enrol " + facility.str()); !done) return done;
  }
  return transaction->commit();
}

Status Registry::change_samples(const FacilityId& facility, std::int64_t samples) {
  FEDQUEUE_ASSERT(samples > 0);
  const std::lock_guard lock(state_->mutex);
  Result<sqlite::Statement> update = sqlite::Statement::prepare(
      state_->database.get(), "UPDATE facilities SET samples = ? WHERE name = ?");
  if (!update) return update.error();
  update->restart().bind(samples).bind(facility.str());
  if (Status done = update->finish("change the samples of " + facility.str()); !done) return done;
  if (update->rows_changed() == 1) return {};
  return Error{Code::not_found, "the facility '" + facility.str() + "' is not enrolled",
               "Enrol it: fedserver cert facility DIR " + facility.str() + " --samples N"};
}

Result<std::optional<EnrolledFacility>> Registry::facility(const FacilityId& facility) const {
  const std::lock_guard lock(state_->mutex);
  return state_->facility(facility);
}

Result<std::vector<EnrolledFacility>> Registry::facilities() const {
  const std::lock_guard lock(state_->mutex);
  Result<sqlite::Statement> query = sqlite::Statement::prepare(
      state_->database.get(), "SELECT name, samples, enrolled_at FROM facilities ORDER BY name");
  if (!query) return query.error();
  std::vector<EnrolledFacility> all;
  for (;;) {
    Result<bool> row = query->step("read the facilities");
    if (!row) return row.error();
    if (!*row) return all;
    all.push_back({FacilityId(query->text(0)), query->integer(1), time_of(query->integer(2))});
  }
}

}  // namespace fedqueue
