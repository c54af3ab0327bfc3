/** The user and password within an address, as a header. */

/** undefined where it names none. A `%` that begins no escape stands for itself, as everywhere people paste passwords. */
export function basicAuthorization({ username, password }: Pick<URL, 'username' | 'password'>): string | undefined {
  if (username === '' && password === '') return undefined;
  return `Basic ${Buffer.from(`${decoded(username)}:${decoded(password)}`).toString('base64')}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
