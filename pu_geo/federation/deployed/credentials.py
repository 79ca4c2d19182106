"""Who is who in a federation: the leader's certificates, the members' keys, and the fingerprints that people compare."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pu_geo.errors import FederationError, printable
from pu_geo.files import atomic_write

CA, CA_KEY, SERVER, SERVER_KEY = "ca.pem", "ca-key.pem", "server.pem", "server-key.pem"
LOOPBACK = ("localhost", "127.0.0.1")
_CA_DAYS, _SERVER_DAYS = 1825, 365
_EARLIER = timedelta(days=1)  # clocks differ
_LABEL, _MAX_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"), 190  # of the address in an invitation, with its port


def certify(tls: Path, host: str) -> None:
    """Make a server certificate for a name or address, and this machine's own; the CA is made by the first call and stays
    the same.

    Args:
        tls: folder; keys in it get mode 0600.
    """
    if not (tls / CA).is_file():
        authority = ec.generate_private_key(ec.SECP384R1())
        name = _name("PU-Geo federation")
        made = _signed(name, name, authority.public_key(), authority, _CA_DAYS, [])
        _write_key(tls / CA_KEY, authority)
        _write(tls / CA, made.public_bytes(serialization.Encoding.PEM), 0o644)
    authority, issuer = private_key(tls / CA_KEY), x509.load_pem_x509_certificate((tls / CA).read_bytes())
    server = ec.generate_private_key(ec.SECP384R1())
    names = [_general(each) for each in dict.fromkeys([host, *LOOPBACK])]
    made = _signed(_name("PU-Geo leader"), issuer.subject, server.public_key(), authority, _SERVER_DAYS, names)
    _write_key(tls / SERVER_KEY, server)
    _write(tls / SERVER, made.public_bytes(serialization.Encoding.PEM), 0o644)


def _signed(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, key: ec.EllipticCurvePrivateKey, days: int,
    names: Sequence[x509.GeneralName],
) -> x509.Certificate:  # fmt: skip
    """Return a certificate: of a CA if it has no names, else of a server."""
    is_ca = not names
    now = datetime.now(UTC)
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
        False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=not is_ca, key_cert_sign=is_ca, crl_sign=is_ca, **usage), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    return builder.sign(key, hashes.SHA384())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def require_host(host: str) -> None:
    """Raise FederationError unless members can be sent this name or address: a name of DNS, or an address of IPv4."""
    if re.fullmatch("[0-9.]+", host):
        is_right = isinstance(_general(host), x509.IPAddress)
    else:
        is_right = len(host) <= _MAX_HOST and all(map(_LABEL.fullmatch, host.split(".")))
    if is_right:
        return
    wrong = (
        "is an IPv6 address, which is not supported" if host.count(":") > 1 else "is no name or IPv4 address of a machine"
    )
    raise FederationError(
        f"{printable(host)!r} {wrong}.",
        "Name what members reach this machine by, such as leader.example.org or 192.0.2.7, without a port.",
        kind="address",
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a key of our own; one is made if there is none."""
    if not path.is_file():
        _write_key(path, ec.generate_private_key(ec.SECP384R1()))
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{path} holds another kind of key")
    return key


def public_text(key: ec.EllipticCurvePrivateKey) -> str:
    """Return the public half of a key as PEM text, the form in which Flower compares keys."""
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode("ascii")
    )


def public_key(text: str) -> ec.EllipticCurvePublicKey:
    """Parse a stranger's public key. Raises ValueError unless it is a P-384 key in the form that `public_text` writes."""
    try:
        key = serialization.load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("is no public key") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise ValueError("is no key of the curve P-384")
    if key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode() != text:
        raise ValueError("holds more than a public key")
    return key


def sign(key: ec.EllipticCurvePrivateKey, content: bytes) -> bytes:
    return key.sign(content, ec.ECDSA(hashes.SHA384()))


def is_signed(key: ec.EllipticCurvePublicKey, content: bytes, signature: bytes) -> bool:
    """Return whether the owner of a key signed this content."""
    try:
        key.verify(signature, content, ec.ECDSA(hashes.SHA384()))
    except InvalidSignature:
        return False
    return True


def certificate_bytes(text: str) -> bytes:
    """Return a stranger's certificate as DER.

    Raises:
        ValueError: if it is none, is none of a CA, or the text holds more: whoever trusts the text would trust a second
            certificate in it, which no fingerprint covers.
    """
    found = x509.load_pem_x509_certificate(text.encode())
    if found.public_bytes(serialization.Encoding.PEM).decode() != text:
        raise ValueError("holds more than a certificate")
    try:
        is_ca = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_ca = False
    if not is_ca:
        raise ValueError("is not that of a certificate authority")
    return found.public_bytes(serialization.Encoding.DER)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    content = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write(path, content, 0o600)


def _write(path: Path, content: bytes, mode: int) -> None:
    with atomic_write(path, mode=mode) as temporary:
        temporary.write_bytes(content)
