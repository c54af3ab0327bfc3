/**
 * What PostgreSQL keeps of a password (SCRAM-SHA-256, RFC 5802 and 7677). Sent in its place: who sees it cannot log in with it.
 */
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';

/** As PostgreSQL makes them itself; a password is random, and more would only be slow. */
const iterations = 4_096;
const saltBytes = 16;

/** `SCRAM-SHA-256$ITERATIONS:SALT$STORED_KEY:SERVER_KEY`. `password`: ASCII, which needs no preparation. */
export function scramVerifier(password: string, salt: Buffer = randomBytes(saltBytes)): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256');
  const keyFor = (what: string): Buffer => createHmac('sha256', salted).update(what).digest();
  const storedKey = createHash('sha256').update(keyFor('Client Key')).digest('base64');
  const serverKey = keyFor('Server Key').toString('base64');
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`;
}
