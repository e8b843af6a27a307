// OpenSSL's objects with owners.
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace fedqueue {

template <auto free_function>
struct OpensslDeleter {
  template <typename T>
  void operator()(T* object) const {
    free_function(object);
  }
};

using CertificatePtr = std::unique_ptr<X509, OpensslDeleter<X509_free>>;
using CertificateRequestPtr = std::unique_ptr<X509_REQ, OpensslDeleter<X509_REQ_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslDeleter<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, OpensslDeleter<BIO_free_all>>;
using BigNumberPtr = std::unique_ptr<BIGNUM, OpensslDeleter<BN_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, OpensslDeleter<X509_EXTENSION_free>>;
using GeneralNamesPtr = std::unique_ptr<GENERAL_NAMES, OpensslDeleter<GENERAL_NAMES_free>>;
using StorePtr = std::unique_ptr<X509_STORE, OpensslDeleter<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpensslDeleter<X509_STORE_CTX_free>>;

}  // namespace fedqueue
