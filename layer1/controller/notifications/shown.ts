/** The address of a receiver, and what it answered, as people see it. Pure. */

/** Its address alone, without user, password, path and query: any of them may be a secret. */
export function urlShown(text: string): string {
  const { protocol, host, pathname, search, username, password } = new URL(text);
  const login = username === '' && password === '' ? '' : '***@';
  const rest = pathname === '/' && search === '' ? '' : '/***';
  return `${protocol}//${login}${host}${rest}`;
}

/** Of what was answered the status alone, where there was one. */
export function statusOf(answer: string): string {
  return /^\d{3}\b/.exec(answer)?.[0] ?? answer;
}
