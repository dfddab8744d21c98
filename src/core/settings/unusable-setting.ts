/** A setting is valid, but this machine does not meet it. The message names the setting and says why. */
export class UnusableSetting extends Error {
  override readonly name = "UnusableSetting"
}
