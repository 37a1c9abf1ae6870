variable "profile" {
  type    = string
  default = "fabric"
}

variable "account_id" {
  type = string
}

variable "zone_id" {
  type = string
}

variable "hostname" {
  type = string
}

# Secrets: set them as TF_VAR_hash_key and so on. They end up in the state, so keep that encrypted.
variable "hash_key" {
  type      = string
  sensitive = true
}

variable "admin_token" {
  type      = string
  sensitive = true
  default   = ""
}

variable "analytics_token" {
  type      = string
  sensitive = true
  default   = ""
}
