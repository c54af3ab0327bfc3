/** Which protocols and ciphers are spoken with clients? */
import type { SecureContextOptions } from 'node:tls';

export const tlsProfiles = ['modern', 'intermediate', 'old'] as const;
export type TlsProfile = (typeof tlsProfiles)[number];

const tls13 = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'];
/** Forward secrecy and authenticated encryption. */
const strong = [
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
];
/** Forward secrecy only: clients of about 2012 to 2015. */
const dated = [
  'ECDHE-ECDSA-AES128-SHA256',
  'ECDHE-RSA-AES128-SHA256',
  'ECDHE-ECDSA-AES128-SHA',
  'ECDHE-RSA-AES128-SHA',
  'ECDHE-ECDSA-AES256-SHA',
  'ECDHE-RSA-AES256-SHA',
];
/** What is left of the time before. */
const ancient = ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'AES128-SHA256', 'AES128-SHA', 'AES256-SHA'];

/**
 * `modern`: TLS 1.3, and 1.2 with authenticated ciphers. `intermediate`: 1.2 with CBC ciphers too. `old`: from 1.0 on,
 * without forward secrecy if need be, and OpenSSL's own minimum of strength is off.
 */
export function profileOptions(profile: TlsProfile): SecureContextOptions {
  const table: Record<TlsProfile, SecureContextOptions> = {
    modern: { minVersion: 'TLSv1.2', ciphers: [...tls13, ...strong].join(':') },
    intermediate: { minVersion: 'TLSv1.2', ciphers: [...tls13, ...strong, ...dated].join(':') },
    old: { minVersion: 'TLSv1', ciphers: [...tls13, ...strong, ...dated, ...ancient, '@SECLEVEL=0'].join(':') },
  };
  // The client knows whether it has AES in hardware: its order counts.
  return { ...table[profile], honorCipherOrder: false };
}
