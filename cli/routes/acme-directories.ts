/** Authorities that everybody knows, by the names people have for them. */
const directories: Readonly<Record<string, string>> = {
  letsencrypt: 'https://acme-v02.api.letsencrypt.org/directory',
  // Without its limits; nobody trusts what it signs.
  'letsencrypt-staging': 'https://acme-staging-v02.api.letsencrypt.org/directory',
  zerossl: 'https://acme.zerossl.com/v2/DV90',
};

export const knownAuthorities: readonly string[] = Object.keys(directories);

/** What is no name is an address, which the controller judges. */
export function directoryOf(text: string): string {
  return directories[text.toLowerCase()] ?? text;
}
