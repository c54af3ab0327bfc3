import { type LookupAddress, type LookupOptions, lookup as systemLookup } from 'node:dns';

type Answer = (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void;

/** Resolves names like the system does, except that everything under .localhost is this machine (RFC 6761, section 6.3). */
export function lookup(hostname: string, options: LookupOptions, answer: Answer): void {
  if (!hostname.endsWith('.localhost')) systemLookup(hostname, options, answer);
  else if (options.all === true) answer(null, [{ address: '127.0.0.1', family: 4 }]);
  else answer(null, '127.0.0.1', 4);
}
