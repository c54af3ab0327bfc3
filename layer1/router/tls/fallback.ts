/** What is shown for names without a certificate: clients warn, and those told not to care get an answer over TLS. */
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import type { Credentials } from '@flynn/kit/tls';

/** Of an authority that is forgotten at once: it is trusted by nobody, and nobody can be made to. */
export async function createFallback(): Promise<Credentials> {
  const authority = await createAuthority('flynn: no certificate for this name');
  return issueCertificate(authority, { name: 'flynn: no certificate for this name', addresses: ['unknown.invalid'] });
}
